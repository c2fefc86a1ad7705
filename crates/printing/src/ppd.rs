//! The printer's description in Adobe's PPD format 4.3, which GTK, LibreOffice and Chromium ask for
//! over HTTP. Beside attributes.rs, whose choices it repeats. Knows text.

use std::fmt::Write as _;

use crate::media::{PAPERS, Paper};

const HEAD: &str = r#"*PPD-Adobe: "4.3"
*FormatVersion: "4.3"
*FileVersion: "1.0"
*LanguageVersion: English
*LanguageEncoding: ISOLatin1
*PCFileName: "THINC.PPD"
*Manufacturer: "thinc"
*Product: "(thinc)"
*ModelName: "thinc"
*ShortNickName: "thinc"
*NickName: "thinc"
*PSVersion: "(3010.000) 0"
*LanguageLevel: "3"
*ColorDevice: True
*DefaultColorSpace: RGB
*FileSystem: False
*Throughput: "60"
*LandscapeOrientation: Plus90
*TTRasterizer: Type42
*cupsVersion: 2.2
*cupsManualCopies: False
*cupsFilter2: "application/vnd.cups-pdf application/pdf 0 -"
*cupsFilter2: "application/pdf application/pdf 0 -"
"#;

const TAIL: &str = r#"*VariablePaperSize: True
*HWMargins: 0 0 0 0
*MaxMediaWidth: "2384"
*MaxMediaHeight: "3370"
*NonUIOrderDependency: 20 AnySetup *CustomPageSize True
*CustomPageSize True: "pop pop pop <</PageSize [5 -2 roll]>> setpagedevice"
*ParamCustomPageSize Width: 1 points 72 2384
*ParamCustomPageSize Height: 2 points 72 3370
*ParamCustomPageSize WidthOffset: 3 points 0 0
*ParamCustomPageSize HeightOffset: 4 points 0 0
*ParamCustomPageSize Orientation: 5 int 0 3
*OpenUI *Duplex/Two-sided: PickOne
*OrderDependency: 30 AnySetup *Duplex
*DefaultDuplex: None
*Duplex None/Off: "1 dict dup /Duplex false put setpagedevice"
*Duplex DuplexNoTumble/Long edge: "2 dict dup /Duplex true put dup /Tumble false put setpagedevice"
*Duplex DuplexTumble/Short edge: "2 dict dup /Duplex true put dup /Tumble true put setpagedevice"
*CloseUI: *Duplex
*OpenUI *ColorModel/Colour: PickOne
*OrderDependency: 40 AnySetup *ColorModel
*DefaultColorModel: RGB
*ColorModel RGB/Colour: "1 dict dup /ProcessColorModel /DeviceRGB put setpagedevice"
*ColorModel Gray/Grey: "1 dict dup /ProcessColorModel /DeviceGray put setpagedevice"
*CloseUI: *ColorModel
*DefaultFont: Courier
*Font Courier: Standard "(001.000)" Standard ROM
*Font Helvetica: Standard "(001.000)" Standard ROM
*Font Times-Roman: Standard "(001.000)" Standard ROM
"#;

/// The description, with this paper if a program chooses none.
pub fn ppd(paper: Paper) -> String {
    let mut text = HEAD.to_owned();
    for (number, keyword, title) in [(10, "PageSize", "Paper"), (11, "PageRegion", "Paper")] {
        let _ = writeln!(text, "*OpenUI *{keyword}/{title}: PickOne");
        let _ = writeln!(text, "*OrderDependency: {number} AnySetup *{keyword}");
        let _ = writeln!(text, "*Default{keyword}: {}", paper.ppd);
        for Paper { ppd, points: (width, height), .. } in PAPERS {
            let code = format!("1 dict dup /PageSize [{width} {height}] put setpagedevice");
            let _ = writeln!(text, "*{keyword} {ppd}/{ppd}: \"{code}\"");
        }
        let _ = writeln!(text, "*CloseUI: *{keyword}");
    }
    let _ = writeln!(text, "*DefaultImageableArea: {}", paper.ppd);
    let _ = writeln!(text, "*DefaultPaperDimension: {}", paper.ppd);
    for Paper { ppd, points: (width, height), .. } in PAPERS {
        let _ = writeln!(text, "*ImageableArea {ppd}/{ppd}: \"0 0 {width} {height}\"");
        let _ = writeln!(text, "*PaperDimension {ppd}/{ppd}: \"{width} {height}\"");
    }
    text + TAIL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_has_a_default_that_exists() {
        let text = ppd(Paper::of_locale("en_US"));
        for keyword in ["PageSize", "PageRegion", "Duplex", "ColorModel"] {
            let start = format!("*Default{keyword}: ");
            let default = text.lines().find_map(|line| line.strip_prefix(start.as_str())).unwrap();
            let choice = format!("\n*{keyword} {default}/");
            assert!(text.contains(&choice), "{choice}");
            assert!(text.contains(&format!("*CloseUI: *{keyword}\n")), "{keyword}");
        }
        assert!(text.contains("*DefaultPageSize: Letter\n"));
        // 255 bytes: the longest line of the format.
        assert!(text.lines().all(|line| line.len() <= 255 && line.is_ascii()));
    }
}
